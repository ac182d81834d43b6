//! `docs/reference/errors.md`.

use kith_server::edge::code_name;
use kith_service::error::{Reason, ReasonEntry, Retry};

use super::markdown::{begin, code, definitions, ended};

const HEAD: &str = "\
An error is a [gRPC status](../../proto/google/rpc/status.proto) with \
[details](../../proto/google/rpc/error_details.proto). A caller branches on the reason, never on the message, whose words may change.

| detail | content |
| --- | --- |
| `google.rpc.ErrorInfo` | `domain` is `kith`, `reason` is one of those below; `metadata.outcome` is \
`unknown` if a write may have been applied, `not_applied` if not and a retry may succeed; else absent |
| `google.rpc.BadRequest` | the field or the metadata at fault, and what it must be |
| `google.rpc.RetryInfo` | how long to wait before a retry. Over HTTP also in seconds, as `Retry-After` |
| `google.rpc.Help` | where the reason is explained: below `docs_url` of the \
[configuration](configuration.md), by default the path in the repository |

Items of batches and imports have code, reason, field, message and metadata in `kith.type.v1.ResultError`. \
`kith errors` prints this list, `kith errors NAME_TAKEN` one entry.

If the outcome is `unknown`, the write may have been applied: repeat it with the same `request_id`, so that \
it has one effect. A reason without \"Try again\" lasts: the same request fails again.

";

pub(super) fn write() -> String {
    let mut text = begin("Errors", "`crates/service/src/error/table.rs`") + HEAD;
    let mut rows: Vec<[String; 2]> = Vec::new();
    for reason in Reason::ALL {
        let code = code_name(reason.code());
        let link = format!("[{}](#{})", reason.name(), reason.anchor());
        match rows.iter_mut().find(|[known, _]| known == code) {
            Some([_, links]) => *links += &format!(", {link}"),
            None => rows.push([code.to_owned(), link]),
        }
    }
    text += &definitions(rows);
    for reason in Reason::ALL {
        text += &entry(reason);
    }
    ended(&text)
}

fn entry(reason: Reason) -> String {
    let ReasonEntry { name, code: number, cause, fix, retry, .. } = *reason.entry();
    let again = match retry {
        Retry::Never => String::new(),
        _ => format!("\n\nTry again: {retry}."),
    };
    format!("## {name}\n\n{}: {cause}\n\n{fix}{again}\n\n", code(code_name(number)))
}
