//! File forms that are not JSON Lines, recognised by their first bytes.

/// A form, and the program that converts it to JSON Lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileForm {
    /// The text after `the file is`.
    pub is: &'static str,
    /// A command that takes the file's name as its last argument, or reads standard input.
    pub filter: &'static str,
}

const fn form(is: &'static str, filter: &'static str) -> FileForm {
    FileForm { is, filter }
}

const MAGIC: [(&[u8], FileForm); 7] = [
    (b"\x1f\x8b", form("compressed by gzip", "gunzip -c")),
    (b"\x28\xb5\x2f\xfd", form("compressed by zstd", "zstd -dc")),
    (b"\xfd7zXZ\0", form("compressed by xz", "xz -dc")),
    (b"BZh", form("compressed by bzip2", "bzip2 -dc")),
    (b"PK\x03\x04", form("a zip archive", "unzip -p")),
    (b"\xff\xfe", form("in UTF-16", "iconv -f UTF-16 -t UTF-8")),
    (b"\xfe\xff", form("in UTF-16", "iconv -f UTF-16 -t UTF-8")),
];
const UTF_16_LITTLE: FileForm = form("in UTF-16", "iconv -f UTF-16LE -t UTF-8");
const UTF_16_BIG: FileForm = form("in UTF-16", "iconv -f UTF-16BE -t UTF-8");
const ARRAY: FileForm = form("one JSON array and not a record a line", "jq -c '.[]'");
const SEVERAL_LINES: FileForm = form("JSON with several lines a record", "jq -c .");

impl FileForm {
    /// The form of a file that begins with these bytes. `None` for a file that may be JSON Lines or an edge
    /// list.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        if let Some((_, form)) = MAGIC.iter().find(|(magic, _)| beginning.starts_with(magic)) {
            return Some(*form);
        }
        match beginning {
            [first, 0, ..] if *first != 0 => return Some(UTF_16_LITTLE),
            [0, second, ..] if *second != 0 => return Some(UTF_16_BIG),
            _ => {}
        }
        let text = beginning.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(beginning).trim_ascii_start();
        let mut lines = text.split(|byte| *byte == b'\n');
        match (lines.next().map(<[u8]>::trim_ascii), lines.next()) {
            (Some([b'[', ..]), _) => Some(ARRAY),
            (Some([b'{']), Some(_)) => Some(SEVERAL_LINES),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FileForm;

    fn filter(beginning: &[u8]) -> Option<&'static str> {
        FileForm::of(beginning).map(|form| form.filter)
    }

    #[test]
    fn forms_are_recognised_by_their_first_bytes() {
        for (beginning, expected) in [
            (&b"\x1f\x8b\x08\x00"[..], "gunzip -c"),
            (b"PK\x03\x04", "unzip -p"),
            (b"\xff\xfe{\0", "iconv -f UTF-16 -t UTF-8"),
            (b"{\0\"\0", "iconv -f UTF-16LE -t UTF-8"),
            (b"\0{\0\"", "iconv -f UTF-16BE -t UTF-8"),
            (b"[{\"userId\":1},", "jq -c '.[]'"),
            (b"\xEF\xBB\xBF\r\n [\r\n", "jq -c '.[]'"),
            (b"{\r\n  \"userId\": 1,", "jq -c ."),
        ] {
            assert_eq!(filter(beginning), Some(expected), "{beginning:?}");
        }
    }

    #[test]
    fn lines_of_records_have_no_other_form() {
        for beginning in
            [&b""[..], b"{}", b"{", b"{\"userId\":1}\n", b"1 2\n", b"# a\n1 2", b"\0", b"user_id,target_id"]
        {
            assert_eq!(filter(beginning), None, "{beginning:?}");
        }
    }
}
