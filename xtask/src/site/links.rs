//! Checks that every link in built pages leads to a file, and to an existing place in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail, ensure};

use super::joined;

/// Attributes with a link, and the attribute that a link may name behind `#`.
const LINKS: [&str; 2] = [" href=\"", " src=\""];
const PLACE: &str = " id=\"";

/// Checks all pages below a folder, and returns how many links they have to each other and to other files.
///
/// # Errors
/// Names every link that leads nowhere.
pub(super) fn check(folder: &Path) -> Result<usize> {
    let mut pages = BTreeMap::new();
    collect(folder, &mut pages)?;
    let places: BTreeMap<&PathBuf, BTreeSet<&str>> =
        pages.iter().map(|(page, text)| (page, values(text, PLACE).collect())).collect();
    let (mut links, mut broken) = (0, Vec::new());
    for (page, text) in &pages {
        for link in LINKS.iter().flat_map(|attribute| values(text, attribute)).filter(|link| is_local(link)) {
            links += 1;
            let (file, place) = target(page, link);
            let is_found = places.get(&file).map_or_else(
                || place.is_empty() && file.is_file(),
                |places| place.is_empty() || places.contains(place.as_str()),
            );
            if !is_found {
                let page = page.strip_prefix(folder).unwrap_or(page);
                broken.push(format!("{} links to {link}", page.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("links lead nowhere:\n{}", broken.join("\n"));
    }
    ensure!(links > 0, "no page has a link");
    Ok(links)
}

/// Reads the pages below a folder, without their scripts.
fn collect(folder: &Path, pages: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, pages)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            let text = fs::read_to_string(&path)?;
            pages.insert(path, without_scripts(&text));
        }
    }
    Ok(())
}

fn without_scripts(page: &str) -> String {
    let mut parts = page.split("<script");
    let first = parts.next().unwrap_or_default().to_owned();
    // The attributes of a script stay: its source is a link.
    let parts = parts.map(|part| {
        let (attributes, rest) = part.split_once('>').unwrap_or((part, ""));
        let (_, after) = rest.split_once("</script>").unwrap_or(("", ""));
        format!("<script{attributes}>{after}")
    });
    first + &parts.collect::<String>()
}

/// The values of an attribute. A quote in the text of a page is escaped, so it begins no attribute.
fn values<'a>(page: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// Whether a link leads to a file of the site: it has neither a scheme nor a host.
fn is_local(link: &str) -> bool {
    let before_path = link.split(['/', '#']).next().unwrap_or_default();
    !link.starts_with("//") && !before_path.contains(':') && !["", "#"].contains(&link)
}

/// Returns the file to which a link in this page leads, and the place in it. A folder stands for its index.
fn target(page: &Path, link: &str) -> (PathBuf, String) {
    let link = decoded(&link.replace("&amp;", "&"));
    let (path, place) = link.split_once('#').unwrap_or((&link, ""));
    let path = path.split('?').next().unwrap_or_default();
    let file = if path.is_empty() { page.to_owned() } else { joined(page, path) };
    let file = if file.is_dir() { file.join("index.html") } else { file };
    (file, place.to_owned())
}

/// Decodes `%C3%A9` to `é`.
fn decoded(link: &str) -> String {
    let mut parts = link.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let code = part.get(..2).and_then(|code| u8::from_str_radix(code, 16).ok());
        if let Some(code) = code {
            bytes.push(code);
            bytes.extend_from_slice(&part.as_bytes()[2..]);
        } else {
            bytes.push(b'%');
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    /// Checks a site with these pages.
    fn checked(name: &str, pages: &[(&str, &str)]) -> Result<usize> {
        let folder = env::temp_dir().join(format!("kith-site-{name}-{}", process::id()));
        for (page, text) in pages {
            let path = folder.join(page);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let checked = check(&folder);
        fs::remove_dir_all(folder).unwrap();
        checked
    }

    #[test]
    fn links_between_pages_are_counted() {
        let first = "<a href=\"a/b.html#x\">b</a><a href=\"a/\">a</a><a href=\"https://h.example/no\">h</a><p id=\"here\">\
                     <a href=\"#here\"><script src=\"s.js?v=1\">' href=\"no\"'</script><a href=\"a/index.html#%C3%A9\">";
        let pages = [
            ("index.html", first),
            ("a/index.html", "<p id=\"é\"><a href=\"../index.html#here\">"),
            ("a/b.html", "<p id=\"x\"> &quot; href=&quot;no&quot;"),
            ("s.js", ""),
        ];
        assert_eq!(checked("whole", &pages).unwrap(), 6);
    }

    #[test]
    fn broken_links_are_named_with_their_page() {
        let missing = ["b.html", "#y", "a/b.html#y", "s.js", "a", "../index.html#x"];
        for link in missing {
            let page = format!("<p id=\"x\"><a href=\"{link}\">");
            let why = checked("broken", &[("index.html", &page), ("a/b.html", "<p id=\"x\">")]).unwrap_err();
            assert_eq!(why.to_string(), format!("links lead nowhere:\nindex.html links to {link}"));
        }
    }

    #[test]
    fn site_without_a_link_is_refused() {
        assert!(checked("empty", &[("index.html", "<p>")]).is_err());
    }
}
