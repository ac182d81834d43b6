//! Writes the source of the site's book: copies of the documents, and pages for the files and folders that
//! they link to.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use super::joined;

/// The page whose links give the order of the chapters.
const ORDER: &str = "docs/README.md";
/// A file with such a name is the page of its folder. mdBook calls it `index.md`.
const README: &str = "README.md";
/// The folder of the pages about every call, setting, metric and error.
const REFERENCE: &str = "docs/reference/";
/// A folder whose page has another title than its path.
const DECISIONS: [&str; 2] = ["docs/adr", "Decisions"];
/// Files that browsers show, so they need no page.
const SHOWN: [&str; 3] = [".png", ".svg", ".json"];
const SETTINGS: &str = include_str!("book.toml");
/// The title in these settings, without the version.
const TITLE: &str = "title = \"Kith";
const DIAGRAMS: &str = include_str!("diagrams.js");

/// Writes the book's source into an empty folder: the tracked documents, and these pages, which are not
/// tracked.
///
/// # Errors
/// Fails if a file cannot be read or written.
pub(super) fn write(root: &Path, folder: &Path, built: Vec<(String, String)>) -> Result<()> {
    let mut book = Book::new(root, tracked(root)?);
    for document in book.files.clone().iter().filter(|file| file.ends_with(".md")) {
        let text = book.read(document)?;
        book.add(document, &text);
    }
    for (page, text) in built {
        book.add(&page, &text);
    }
    book.add_linked()?;
    for (page, text) in &book.pages {
        put(&folder.join(staged(page)), text.as_bytes())?;
    }
    for file in &book.copies {
        put(&folder.join(file), &fs::read(root.join(file))?)?;
    }
    let settings = SETTINGS.replace(TITLE, &format!("{TITLE} {}", super::VERSION));
    for (name, text) in
        [("SUMMARY.md", &*book.summary()), ("book.toml", &settings), ("diagrams.js", DIAGRAMS)]
    {
        put(&folder.join(name), text.as_bytes())?;
    }
    Ok(())
}

/// A book while its pages are collected. Paths are relative to the root.
struct Book<'a> {
    root: &'a Path,
    files: BTreeSet<String>,
    /// The text of each page by its path in the repository; a file's page has `.md` behind it, a folder's
    /// page is called as its README would be.
    pages: BTreeMap<String, String>,
    /// The files and folders that have no page yet although a page links to them.
    linked: BTreeSet<String>,
    /// Linked files without a page.
    copies: BTreeSet<String>,
}

impl<'a> Book<'a> {
    fn new(root: &'a Path, files: BTreeSet<String>) -> Self {
        let (linked, copies) = (BTreeSet::new(), BTreeSet::new());
        Self { root, files, pages: BTreeMap::new(), linked, copies }
    }

    /// Adds a page, whose links lead to pages from now on.
    fn add(&mut self, page: &str, text: &str) {
        let text = self.with_links(page, text);
        self.pages.insert(page.to_owned(), text);
    }

    fn read(&self, file: &str) -> Result<String> {
        fs::read_to_string(self.root.join(file)).with_context(|| file.to_owned())
    }

    /// Makes links lead to pages, and notes what they lead to.
    fn with_links(&mut self, page: &str, text: &str) -> String {
        let mut parts = text.split("](");
        let mut changed = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (link, rest) = part.split_once(')').unwrap_or((part, ""));
            let link = self.link(page, link);
            changed += &format!("]({link}){rest}");
        }
        changed
    }

    fn link(&mut self, page: &str, link: &str) -> String {
        let (path, place) =
            link.split_once('#').map_or((link, String::new()), |(path, place)| (path, format!("#{place}")));
        if path.is_empty() || path.contains(':') {
            return link.to_owned();
        }
        let to = path_of_link(page, path);
        if self.files.contains(&format!("{to}/{README}")) {
            return format!("{}/index.md{place}", path.trim_end_matches('/'));
        }
        if to.ends_with(".md") {
            return staged(path) + &place;
        }
        if SHOWN.iter().any(|end| to.ends_with(end)) {
            self.copies.insert(to);
            return link.to_owned();
        }
        let end = if self.files.contains(&to) { ".md" } else { "/index.md" };
        self.linked.insert(to);
        format!("{}{end}{place}", path.trim_end_matches('/'))
    }

    /// Adds the pages of linked files, and of linked folders with their files.
    fn add_linked(&mut self) -> Result<()> {
        let folders: Vec<String> =
            self.linked.iter().filter(|path| !self.files.contains(*path)).cloned().collect();
        for folder in folders {
            let list = self.list(&folder)?;
            self.add(&format!("{folder}/{README}"), &list);
        }
        let files: Vec<String> =
            self.linked.iter().filter(|path| self.files.contains(*path)).cloned().collect();
        for file in files {
            let text = self.read(&file)?;
            self.pages.insert(format!("{file}.md"), source_page(&file, &text));
        }
        Ok(())
    }

    /// Lists the readable files of a folder.
    fn list(&self, folder: &str) -> Result<String> {
        let within = format!("{folder}/");
        let [decisions, title_of_decisions] = DECISIONS;
        let mut list = format!("# {}\n\n", if folder == decisions { title_of_decisions } else { folder });
        for file in self.files.iter().filter_map(|file| file.strip_prefix(&within)) {
            let path = format!("{within}{file}");
            let Ok(text) = fs::read_to_string(self.root.join(&path)) else { continue };
            let title = if file.ends_with(".md") { title(&text).to_owned() } else { file.to_owned() };
            list += &format!("- [{title}]({file})\n");
        }
        ensure!(list.contains("- ["), "a link leads to {folder}, which has no file");
        Ok(list)
    }

    /// Returns the table of contents: the pages in the order of [`ORDER`], then all others.
    fn summary(&self) -> String {
        let mut contents = Contents { book: self, placed: BTreeSet::new(), text: "# Summary\n\n".to_owned() };
        for page in [README, ORDER] {
            contents.add_line("", page);
        }
        contents.text.push('\n');
        for page in self.targets(ORDER) {
            contents.add(&page);
            if page.starts_with(REFERENCE) {
                self.pages
                    .keys()
                    .filter(|page| page.starts_with(REFERENCE))
                    .for_each(|page| contents.add(page));
            }
        }
        for document in self.files.iter().filter(|file| file.ends_with(".md")) {
            contents.add(document);
        }
        contents.text += "\n# Files\n\n";
        for page in self.pages.keys() {
            contents.add(page);
        }
        contents.text
    }

    /// Returns the pages to which this page links, in their order.
    fn targets(&self, page: &str) -> Vec<String> {
        let links = self.pages.get(page).map(|text| text.split("](").skip(1)).into_iter().flatten();
        let paths = links.filter_map(|link| link.split([')', '#']).next()).filter(|path| !path.contains(':'));
        let to = paths.map(|path| path_of_link(page, path));
        let named = to.map(|path| {
            path.strip_suffix("index.md").map(|folder| format!("{folder}{README}")).unwrap_or(path)
        });
        named.filter(|path| self.pages.contains_key(path)).collect()
    }
}

/// A table of contents while it is written.
struct Contents<'a> {
    book: &'a Book<'a>,
    placed: BTreeSet<String>,
    text: String,
}

impl Contents<'_> {
    /// Adds a page. A folder's page is followed by the pages in its folder: those it links to, then others.
    fn add(&mut self, page: &str) {
        if !self.add_line("- ", page) {
            return;
        }
        let Some(folder) = page.strip_suffix(README).filter(|folder| !folder.is_empty()) else { return };
        let linked = self.book.targets(page);
        let all = linked.iter().chain(self.book.pages.keys());
        for inner in all.filter(|inner| inner.starts_with(folder) && !inner.ends_with(README)) {
            self.add_line("  - ", inner);
        }
    }

    /// Adds a line, unless the page has its line already.
    fn add_line(&mut self, before: &str, page: &str) -> bool {
        let is_new = self.placed.insert(page.to_owned());
        if is_new {
            let title = title(&self.book.pages[page]);
            self.text += &format!("{before}[{title}]({})\n", staged(page));
        }
        is_new
    }
}

/// Returns the first heading of a page.
fn title(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled")
}

/// The page that shows a file.
fn source_page(file: &str, text: &str) -> String {
    let language = file.rsplit('.').next().unwrap_or_default();
    format!("# {file}\n\n~~~~~~{language}\n{}\n~~~~~~\n", text.trim_end())
}

/// The name of a page in the book.
fn staged(page: &str) -> String {
    page.strip_suffix(README).map_or_else(|| page.to_owned(), |folder| format!("{folder}index.md"))
}

/// Returns the path below the root to which a link in this file leads.
fn path_of_link(file: &str, link: &str) -> String {
    joined(Path::new(file), link).to_string_lossy().into_owned()
}

fn put(path: &Path, text: &[u8]) -> Result<()> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    folder.and_then(|()| fs::write(path, text)).with_context(|| format!("could not write {}", path.display()))
}

/// Returns the tracked files that exist.
fn tracked(root: &Path) -> Result<BTreeSet<String>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output()?;
    ensure!(
        output.status.success(),
        "git does not list the files: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let listed = String::from_utf8(output.stdout)?;
    Ok(listed.split('\0').filter(|file| root.join(file).is_file()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(files: &[&str]) -> Book<'static> {
        Book::new(Path::new(""), files.iter().map(|file| (*file).to_owned()).collect())
    }

    #[test]
    fn links_lead_to_pages_of_the_book() {
        let mut book = book(&["README.md", "docs/guide/README.md", "deploy/a.yml", "proto/kith/b.proto"]);
        let links = [
            ("README.md", "../../index.md"),
            ("a.md#b", "a.md#b"),
            ("#b", "#b"),
            ("https://h.example/README.md", "https://h.example/README.md"),
            ("../../docs/guide", "../../docs/guide/index.md"),
            ("../../deploy/a.yml", "../../deploy/a.yml.md"),
            ("../../proto/kith/", "../../proto/kith/index.md"),
            ("../b.png", "../b.png"),
        ];
        for (link, expected) in links {
            let link = if link == "README.md" { "../../README.md" } else { link };
            assert_eq!(
                book.with_links("docs/guide/c.md", &format!("see [x]({link}).")),
                format!("see [x]({expected}).")
            );
        }
        assert_eq!(Vec::from_iter(&book.linked), ["deploy/a.yml", "proto/kith"]);
        assert_eq!(Vec::from_iter(&book.copies), ["docs/b.png"]);
    }

    #[test]
    fn contents_have_each_page_once_in_order() {
        let mut book =
            book(&["A.md", "README.md", "docs/README.md", "docs/g/README.md", "docs/g/a.md", "docs/g/b.md"]);
        for (page, text) in [
            ("README.md", "# Start"),
            ("docs/README.md", "# All\n[g](g/index.md) [b](g/b.md#x)"),
            ("docs/g/README.md", "# Guide\n[b](b.md) [up](../index.md)"),
            ("docs/g/a.md", "# A"),
            ("docs/g/b.md", "# B"),
            ("A.md", "# Other"),
            ("x.yml.md", "# x.yml"),
        ] {
            book.pages.insert(page.to_owned(), text.to_owned());
        }
        let expected = "# Summary\n\n[Start](index.md)\n[All](docs/index.md)\n\n- [Guide](docs/g/index.md)\n  - \
                        [B](docs/g/b.md)\n  - [A](docs/g/a.md)\n- [Other](A.md)\n\n# Files\n\n- [x.yml](x.yml.md)\n";
        assert_eq!(book.summary(), expected);
    }
}
