import { type DescMessage, type DescMethodServerStreaming, type MessageInitShape, type MessageShape, create } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";

/** The answers of a stream. It is closed when the loop over it ends. */
export async function* openStream<I extends DescMessage, O extends DescMessage>(
  transport: Transport,
  method: DescMethodServerStreaming<I, O>,
  request: MessageInitShape<I>,
  signal?: AbortSignal,
): AsyncGenerator<MessageShape<O>> {
  const closing = new AbortController();
  const input = (async function* () {
    yield create(method.input, request) as MessageInitShape<I>;
  })();
  const either = signal ? AbortSignal.any([signal, closing.signal]) : closing.signal;
  try {
    yield* (await transport.stream(method, either, undefined, undefined, input)).message;
  } finally {
    closing.abort();
  }
}
