//! Runs a program on its own terminal, which is read as a person sees it.

mod svg;

use std::{
    env,
    io::{Read as _, Write as _},
    num::NonZeroU16,
    path::PathBuf,
    process::{ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use vt100::{Parser, Screen};

use crate::spawned::KilledOnDrop;

/// The variable with the folder to which the documents' pictures are written.
const IMAGES: &str = "KITH_TEST_IMAGES";
/// The test fails after this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// `kith` on a terminal; killed when dropped.
pub(crate) struct Terminal {
    script: KilledOnDrop,
    keys: ChildStdin,
    pieces: Receiver<Vec<u8>>,
    parser: Parser,
    /// Everything that was written to the terminal.
    pub(crate) written: String,
    folder: tempfile::TempDir,
}

impl Terminal {
    /// Runs `kith` with these arguments on a terminal of this size.
    pub(crate) fn start(rows: u16, columns: u16, arguments: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = env!("CARGO_BIN_EXE_kith");
        let pid = folder.path().join("pid");
        let line = format!(
            "stty rows {rows} cols {columns}; echo $$ > {}; exec {program} {arguments}",
            pid.display()
        );
        let mut command = Command::new("script");
        command.args(["-qfec", &line, "/dev/null"]).env("TERM", "xterm-256color").env("SHELL", "/bin/sh");
        command.env_remove("NO_COLOR").env_remove("KITH_API_KEY_FILE").env_remove("KITH_API_KEY");
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut out) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
        let (send, pieces) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = out.read(&mut piece) {
                send.send(piece[..length].to_vec()).ok();
            }
        });
        let size = |cells| NonZeroU16::new(cells).unwrap();
        let parser = Parser::new(size(rows), size(columns), 0);
        Self { script: KilledOnDrop(script), keys, pieces, parser, written: String::new(), folder }
    }

    /// Waits until `is` returns true for the screen.
    pub(crate) fn until(&mut self, is: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !is(self.parser.screen()) {
            let piece = self.pieces.recv_timeout(end.saturating_duration_since(Instant::now()));
            let piece = piece.unwrap_or_else(|_| panic!("the screen stays so:\n{}", self.text()));
            self.take(&piece);
        }
    }

    /// Waits until the screen has this text.
    pub(crate) fn until_text(&mut self, text: &str) {
        self.until(|screen| screen.contents().contains(text));
    }

    fn take(&mut self, piece: &[u8]) {
        self.parser.process(piece);
        self.written += &String::from_utf8_lossy(piece);
    }

    /// Returns the screen's lines.
    pub(crate) fn text(&self) -> String {
        self.parser.screen().contents()
    }

    /// Returns the words whose letters have a color from the palette, in their order.
    pub(crate) fn words_in(&self, color: u8) -> Vec<String> {
        let screen = self.parser.screen();
        let cells = svg::cells(screen).map(|(_, _, cell)| cell);
        let letters =
            cells.map(|cell| if cell.fgcolor() == vt100::Color::Idx(color) { cell.contents() } else { " " });
        letters.collect::<String>().split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Returns the id of the `kith` process.
    pub(crate) fn pid(&self) -> u32 {
        std::fs::read_to_string(self.folder.path().join("pid")).unwrap().trim().parse().unwrap()
    }

    /// Waits until `kith` has ended. Returns its code, if it ended in time.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.take(&piece),
                Err(RecvTimeoutError::Disconnected) => return self.script.0.wait().unwrap().code(),
                Err(RecvTimeoutError::Timeout) => return None,
            }
        }
    }

    /// Returns whether pictures are made.
    pub(crate) fn makes_pictures() -> bool {
        env::var_os(IMAGES).is_some()
    }

    /// Writes the screen as a picture to the folder in [`IMAGES`].
    pub(crate) fn picture(&self, name: &str) {
        let picture = svg::picture(self.parser.screen());
        assert!(picture.starts_with("<svg") && picture.contains("kith"), "{name}");
        if let Some(folder) = env::var_os(IMAGES).map(PathBuf::from) {
            std::fs::write(folder.join(format!("{name}.svg")), picture).unwrap();
        }
    }
}
