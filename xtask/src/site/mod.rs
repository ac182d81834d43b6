//! Builds the site: a book of all documents, in a folder for each version.

mod book;
mod links;

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{
    docs,
    process::{root, succeed, target},
    tools,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the site of this version into `target/site/VERSION`, and the page that leads to the newest version.
///
/// # Errors
/// Fails if a link in any of its pages leads nowhere.
pub(crate) fn build() -> Result<()> {
    let (mdbook, mermaid) = (tools::mdbook()?, tools::mermaid()?);
    let (source, site) = (target().join("site-source"), target().join("site"));
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    book::write(&root(), &source, docs::built_pages()?)?;
    fs::copy(mermaid, source.join("mermaid.min.js"))?;
    let pages = site.join(VERSION);
    succeed(Command::new(mdbook).arg("build").arg(&source).arg("--dest-dir").arg(absolute(&pages)?))?;
    fs::write(site.join("index.html"), index(versions(&site)?))?;
    let links = links::check(&site)?;
    println!("site: {}, {links} links lead somewhere", pages.display());
    Ok(())
}

/// The folder as mdBook takes it: a relative folder would be below the book.
fn absolute(folder: &Path) -> Result<PathBuf> {
    std::path::absolute(folder).with_context(|| format!("{}", folder.display()))
}

/// Returns the path to which a link in this page leads.
fn joined(page: &Path, link: &str) -> PathBuf {
    let mut joined = PathBuf::new();
    for part in page.parent().unwrap_or(page).join(link).components() {
        match part {
            Component::ParentDir => drop(joined.pop()),
            Component::CurDir => {}
            part => joined.push(part),
        }
    }
    joined
}

/// Returns the versions that have a folder.
fn versions(site: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(site)?.filter_map(Result::ok).filter(|entry| entry.path().is_dir());
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.filter(|name| name.starts_with(|first: char| first.is_ascii_digit())).collect())
}

/// Returns a page that leads to the newest of these versions, and lists all.
fn index(mut versions: Vec<String>) -> String {
    versions.sort_by_key(|version| order(version));
    versions.reverse();
    let newest = versions.first().map_or("", String::as_str);
    let items =
        versions.iter().map(|version| format!("<li><a href=\"{version}/index.html\">{version}</a>\n"));
    let items: String = items.collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Kith</title>\n\
         <meta http-equiv=\"refresh\" content=\"0; url={newest}/index.html\">\n\
         <p>The documents of each version:\n<ul>\n{items}</ul>\n"
    )
}

/// Orders versions by their numbers, so that 0.10.0 follows 0.9.0. A release follows its candidates.
fn order(version: &str) -> (Vec<u64>, bool, String) {
    let (numbers, candidate) = version.split_once('-').unwrap_or((version, ""));
    let numbers = numbers.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    (numbers, candidate.is_empty(), candidate.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_page_leads_to_the_newest_version() {
        let versions = ["0.9.0", "0.10.0-rc.1", "0.10.0", "0.2.0"].map(str::to_owned).to_vec();
        let page = index(versions);
        assert!(page.contains("url=0.10.0/index.html"), "{page}");
        let listed: Vec<&str> =
            page.split("<li><a href=\"").skip(1).filter_map(|rest| rest.split('/').next()).collect();
        assert_eq!(listed, ["0.10.0", "0.10.0-rc.1", "0.9.0", "0.2.0"]);
    }
}
