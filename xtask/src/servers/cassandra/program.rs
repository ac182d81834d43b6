use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::Result;

use super::{CONFIGURATION, LOGGING, VERSION, arguments, jars};
use crate::tools::cache_folder;

/// Shell placeholders for the folder, the ports and the heap in the Java arguments.
const DATA: &str = "$1";

/// Returns a program that is a Cassandra with which the laboratory may do anything. It takes a folder and a
/// port, keeps its data there, and runs until it is killed. The next two ports are its own, too. With a third
/// word, `lasting`, acknowledged writes survive its death. The program is written again each time.
///
/// # Errors
/// Fails if the jars cannot be fetched, or the program cannot be written.
pub(crate) fn program() -> Result<PathBuf> {
    let folder = cache_folder()?.join(format!("{VERSION}-program"));
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("cassandra.yaml"), CONFIGURATION)?;
    fs::write(folder.join("logback.xml"), LOGGING)?;
    let program = folder.join("run.sh");
    let partial = folder.join(format!("run.sh.{}", std::process::id()));
    fs::write(&partial, script(&folder, &arguments(DATA, &jars()?, "$(($2 + 2))")?))?;
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o755))?;
    // Another run may use the program at this moment.
    fs::rename(partial, &program)?;
    Ok(program)
}

fn script(folder: &Path, arguments: &[String]) -> String {
    let from = folder.display();
    let ports = "-e \"s|@PORT@|$2|g\" -e \"s|@STORAGE_PORT@|$(($2 + 1))|g\"";
    let words: Vec<String> = arguments.iter().map(|word| format!("\"{word}\"")).collect();
    let words = words.join(" ").replace("-Xmx1536m", "-Xmx512m");
    let lasting = "-e \"s|^commitlog_sync: .*|commitlog_sync: batch|\" -e \"/^commitlog_sync_period:/d\"";
    format!(
        "#!/bin/sh\n\
         sed -e \"s|@DATA@|$1|g\" {ports} \"{from}/cassandra.yaml\" > \"$1/cassandra.yaml\"\n\
         if [ \"$3\" = lasting ]; then sed -i {lasting} \"$1/cassandra.yaml\"; fi\n\
         cp \"{from}/logback.xml\" \"$1/logback.xml\"\n\
         exec java {words}\n"
    )
}
