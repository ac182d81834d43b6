//! Puts messages into gRPC frames.

use std::{fmt, marker::PhantomData};

use prost::Message;
use tonic::{
    Status,
    codec::{BufferSettings, Codec, EncodeBuf, Encoder},
};
use tonic_prost::ProstDecoder;

/// The first size of a message's buffer, in bytes: enough for most messages, and little for silent streams
/// and for answers that peers leave unread.
const BUFFER: usize = 256;
/// Stream messages are sent together until they have this many bytes.
const TOGETHER: usize = 32 << 10;

/// Encodes by prost, into no more memory than the message has bytes. A buffer that grows while it is written
/// would have up to twice as many bytes, which the node would hold, and not count, while a peer leaves an
/// answer unread.
pub struct ExactCodec<T, U>(PhantomData<(T, U)>);

/// The encoder that [`ExactCodec`] uses.
pub struct ExactEncoder<T>(PhantomData<T>);

impl<T, U> Default for ExactCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for ExactCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ExactEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ExactEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::new(BUFFER, TOGETHER))
    }
}

impl<T: Message> Encoder for ExactEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        // The buffer has room for the message.
        message.encode_raw(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER, TOGETHER)
    }
}

impl<T, U> fmt::Debug for ExactCodec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExactCodec")
    }
}

impl<T> fmt::Debug for ExactEncoder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExactEncoder")
    }
}
