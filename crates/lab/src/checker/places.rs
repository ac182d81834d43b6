use super::{
    Run,
    records::{End, Record},
    report::Checked,
};
use crate::history::Place;

/// C7: at the end Redis and every memory hold of each record what the store holds, or nothing.
pub(super) fn check(run: &Run<'_>) -> Checked {
    let mut checked = Checked::new("C7 convergence");
    for record in run.records.iter() {
        copies(record, &mut checked);
    }
    checked
}

fn copies(record: &Record<'_>, checked: &mut Checked) {
    for held in record.held.iter().filter(|held| held.place != Place::Store) {
        let Some(copy) = End::of(held) else { continue };
        checked.look();
        if record.end() != Some(copy) {
            checked.violation(|| {
                let store = record.end().map_or_else(|| "no line".to_owned(), |end| end.to_string());
                format!("{}: {} has {copy}, the store has {store}", record.key, place(held.place))
            });
        }
    }
}

fn place(place: Place) -> String {
    match place {
        Place::Store => "the store".to_owned(),
        Place::Redis => "Redis".to_owned(),
        Place::Memory(node) => format!("the memory of node {node}"),
    }
}
