//! Receipts between the wire and the domain. Raw numbers and strings do not pass this module.

use kith_proto::receipt::v1::{self as wire, receipt::Who, receipt_result::Result as Answer};
use kith_store::{ConversationId, OrdinalLists, Receipt, Seat, Seq, SmallestReceipt};

use super::inputs::ReceiptInputs;
use crate::{
    error::{Error, valid},
    rpc::{
        answer_size::{ByteBudget, left_out},
        batch::check_count,
    },
};

/// The most messages in one batch.
const SEQS_MAX: usize = 100;

pub(super) fn conversation(text: &str) -> Result<ConversationId, Error> {
    valid("conversation_id", text.parse())
}

pub(super) fn seq(field: &'static str, seq: i64) -> Result<Seq, Error> {
    if seq > 0 { Ok(seq) } else { Err(Error::invalid(field, "must be above 0")) }
}

pub(super) fn seqs(seqs: &[i64]) -> Result<Vec<Seq>, Error> {
    check_count("seqs", seqs.len(), SEQS_MAX)?;
    seqs.iter().map(|number| seq("seqs", *number)).collect()
}

pub(super) fn form(number: i32) -> Result<wire::ReceiptForm, Error> {
    wire::ReceiptForm::try_from(number).map_err(|_| Error::invalid("form", "must be a known value"))
}

pub(super) fn receipt_to_wire(receipt: &Receipt, form: wire::ReceiptForm) -> wire::Receipt {
    let counts = receipt.counts();
    wire::Receipt {
        seq: receipt.seq(),
        max_id: receipt.max_id().into(),
        read: counts.read.into(),
        unread: counts.unread.into(),
        left: counts.left.into(),
        who: match form {
            wire::ReceiptForm::Unspecified | wire::ReceiptForm::Counts => None,
            wire::ReceiptForm::Bits => Some(Who::Packed(receipt.packed())),
            wire::ReceiptForm::Smallest => Some(match receipt.smallest() {
                SmallestReceipt::Packed(packed) => Who::Packed(packed),
                SmallestReceipt::Lists(lists) => Who::Lists(lists_to_wire(lists)),
            }),
        },
    }
}

fn lists_to_wire(OrdinalLists { readers, quitters, names_present }: OrdinalLists) -> wire::OrdinalLists {
    wire::OrdinalLists { readers, quitters, names_present }
}

/// A result for each number, in their order, as far as an answer with this many bytes has room.
pub(super) fn results_to_wire(
    inputs: &ReceiptInputs,
    seqs: &[Seq],
    form: wire::ReceiptForm,
    bytes: usize,
) -> Vec<wire::ReceiptResult> {
    let mut budget = ByteBudget::new(bytes);
    let error =
        |seq, error: &Error| wire::ReceiptResult { seq, result: Some(Answer::Error(error.to_result())) };
    let result = |(seq, message): (&Seq, &Result<_, Error>)| {
        let found = match message {
            Ok(message) => {
                let receipt = receipt_to_wire(&inputs.receipt(*message), form);
                wire::ReceiptResult { seq: *seq, result: Some(Answer::Receipt(receipt)) }
            }
            Err(why) => error(*seq, why),
        };
        if budget.admit(&found) { found } else { error(*seq, &left_out()) }
    };
    seqs.iter().zip(&inputs.messages).map(result).collect()
}

pub(super) fn ordinal_to_wire(ordinal: u32, seat: &Seat) -> wire::OrdinalUser {
    wire::OrdinalUser { ordinal: ordinal.into(), user_id: seat.user.get(), left: !seat.is_member() }
}
