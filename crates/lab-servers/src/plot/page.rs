//! The HTML page for a report: styles, title and tables. The body is inserted as HTML; all other text is
//! escaped.

const STYLE: &str = ":root{color-scheme:light dark;--ink:#222;--soft:#555;--paper:#fff;--shade:#ebebeb;--step:#ddd;\
    --bound:#a40e26;--l0:#1a7f37;--l1:#cf222e;--l2:#0969da;--l3:#9a6700}\
    @media(prefers-color-scheme:dark){:root{--ink:#e6e6e6;--soft:#aaa;--paper:#161616;--shade:#2b2b2b;--step:#383838;\
    --bound:#ff8182;--l0:#4ac26b;--l1:#ff7b72;--l2:#58a6ff;--l3:#e3b341}}\
    body{font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em auto;padding:0 1em;color:var(--ink);\
    background:var(--paper)}svg{width:100%;height:auto}text{font:12px system-ui,sans-serif;fill:var(--soft)}\
    .axis{stroke:var(--soft)}.step{stroke:var(--step)}.shade{fill:var(--shade)}text.name{font-size:10px}\
    .bound{stroke:var(--bound);stroke-width:1.5;stroke-dasharray:6 4}polyline{fill:none;stroke-width:2}\
    polyline.l0{stroke:var(--l0)}polyline.l1{stroke:var(--l1)}polyline.l2{stroke:var(--l2)}\
    polyline.l3{stroke:var(--l3)}i.l0{background:var(--l0)}i.l1{background:var(--l1)}i.l2{background:var(--l2)}\
    i.l3{background:var(--l3)}.wide,pre{overflow-x:auto}pre{font-size:12px}.legend span{margin-right:1.5em}\
    .legend i{display:inline-block;width:1.6em;height:.25em;vertical-align:middle;margin-right:.4em}\
    table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
    td,th{padding:.15em .6em;text-align:left;border-bottom:1px solid var(--step)}.no{color:var(--bound)}";

/// A whole page with this title, which is plain text, over this body, which is HTML.
pub fn page(title: &str, body: &str) -> String {
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n<style>{STYLE}</style></head>\n\
         <body><main>\n<h1>{title}</h1>\n{body}</main></body></html>\n"
    )
}

/// Plain text as HTML, also within an attribute.
pub fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
    }
    html
}

/// A table with plain text.
pub fn table<const COLUMNS: usize>(
    caption: &str,
    head: &[&str; COLUMNS],
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let head: String = head.iter().map(|name| format!("<th scope=\"col\">{}</th>", escaped(name))).collect();
    let rows: String =
        rows.map(|cells| format!("<tr>{}</tr>\n", cells.map(|text| cell(&text)).concat())).collect();
    let caption = escaped(caption);
    format!(
        "<div class=\"wide\"><table><caption>{caption}</caption><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody>\
         </table></div>\n"
    )
}

/// A result that does not hold must not be overlooked.
fn cell(text: &str) -> String {
    let class = if text == "NO" { " class=\"no\"" } else { "" };
    format!("<td{class}>{}</td>", escaped(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_needs_nothing_else() {
        let page = page("Title", "<p>body</p>");
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("<link"), "{page}");
        assert!(page.contains("prefers-color-scheme:dark") && page.contains("<p>body</p>"), "{page}");
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
        let table = table("<u>", &["<i>"], [["<b>".to_owned()]].into_iter());
        assert!(!["<u>", "<i>", "<b>"].iter().any(|tag| table.contains(tag)), "{table}");
    }

    #[test]
    fn what_does_not_hold_stands_out() {
        let table = table("rows", &["holds"], [["NO".to_owned()], ["yes".to_owned()]].into_iter());
        assert_eq!(table.matches("<td class=\"no\">NO</td>").count(), 1, "{table}");
        assert!(table.contains("<td>yes</td>"), "{table}");
    }
}
