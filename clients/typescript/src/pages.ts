// Lists without pages, batches without limits.

import { type DescMessage, type DescMethodServerStreaming, type DescMethodUnary, type MessageInitShape, type MessageShape, create } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { KithError } from "./errors.js";
import { openStream } from "./stream.js";

/** What an answer lists: the elements of its repeated fields. */
export type ItemOf<O extends DescMessage> = {
  [Field in Exclude<keyof MessageShape<O>, `$${string}`>]: MessageShape<O>[Field] extends readonly (infer Item)[] ? Item : never;
}[Exclude<keyof MessageShape<O>, `$${string}`>];

type Fields = Record<string, unknown>;

const IDS_MAX = 1000;
/** Calls that take fewer ids. */
const FEWER: Record<string, number> = { BatchSend: 100, PullBySeqs: 100, BatchGetReceipts: 100, GetReadState: 100, CountReaders: 100 };
const PAUSE = 200;

const listOf = (schema: DescMessage): string => schema.fields.find(({ fieldKind }) => fieldKind === "list")?.localName ?? "";

/** All elements of a list, page by page. A list by numbers begins where the request says. */
export async function* pages<I extends DescMessage, O extends DescMessage>(transport: Transport, method: DescMethodUnary<I, O>, request: MessageInitShape<I>): AsyncGenerator<ItemOf<O>> {
  const [list, fields] = [listOf(method.output), { ...(request as Fields) }];
  for (;;) {
    const { message } = await transport.unary(method, undefined, undefined, undefined, fields as MessageInitShape<I>);
    const page = message as Fields;
    const items = page[list] as ItemOf<O>[];
    yield* items;
    const last = items.at(-1) as { seq?: bigint } | undefined;
    if (page["nextPageToken"]) fields["pageToken"] = page["nextPageToken"];
    else if (!page["more"] || last?.seq === undefined) return;
    else if ("beforeSeq" in method.input.field) fields["beforeSeq"] = last.seq;
    else fields["fromSeq"] = last.seq + 1n;
  }
}

/** All records of an export. A stream that is lost continues after its last record. */
export async function* records<I extends DescMessage, O extends DescMessage>(transport: Transport, method: DescMethodServerStreaming<I, O>, request: MessageInitShape<I>): AsyncGenerator<ItemOf<O>> {
  const after = method.input.fields.map(({ localName }) => localName).find((name) => name.startsWith("after")) ?? "";
  const id = after.slice(5, 6).toLowerCase() + after.slice(6);
  const fields = { ...(request as Fields) };
  for (let isOver = false; !isOver; ) {
    try {
      for await (const part of openStream(transport, method, fields as MessageInitShape<I>)) {
        for (const record of (part as Fields)[listOf(method.output)] as ItemOf<O>[]) {
          yield record;
          fields[after] = (record as Fields)[id];
        }
      }
      isOver = true;
    } catch (error) {
      if (!(error instanceof KithError && (error.isLost || error.retryAfterMs !== undefined))) throw error;
      await new Promise((resolve) => setTimeout(resolve, (error.retryAfterMs ?? PAUSE) * (1 + Math.random())));
    }
  }
}

/** Makes a batch of any size: split as the node needs it, and again for what was too large. The answer has the order of the request. */
export async function batch<I extends DescMessage, O extends DescMessage>(transport: Transport, method: DescMethodUnary<I, O>, request: MessageInitShape<I>): Promise<MessageShape<O>> {
  const [ids, list] = [listOf(method.input), listOf(method.output)];
  const ask = async (part: unknown[]): Promise<Fields> => {
    const fields = { ...(request as Fields), [ids]: part } as MessageInitShape<I>;
    const answer = (await transport.unary(method, undefined, undefined, undefined, fields)).message as Fields;
    const items = answer[list] as unknown[];
    // Messages by their numbers: those above the last one did not fit.
    const last = (items.at(-1) as { seq?: bigint } | undefined)?.seq;
    if (answer["more"] && last !== undefined) items.push(...((await ask(part.filter((seq) => BigInt(seq as bigint) > last)))[list] as unknown[]));
    const large = items.flatMap((item, index) => (isTooLarge(item) ? [index] : []));
    if (part.length === 1 || !large.length || items.length !== part.length) return answer;
    const half = large.length === part.length ? Math.ceil(large.length / 2) : large.length;
    for (let from = 0; from < large.length; from += half) {
      const some = large.slice(from, from + half);
      const again = (await ask(some.map((index) => part[index])))[list] as unknown[];
      for (const [place, index] of some.entries()) items[index] = again[place];
    }
    return answer;
  };
  const all = ((request as Fields)[ids] ?? []) as unknown[];
  const size = FEWER[method.name] ?? IDS_MAX;
  const answer = await ask(all.slice(0, size));
  for (let from = size; from < all.length; from += size) (answer[list] as unknown[]).push(...((await ask(all.slice(from, from + size)))[list] as unknown[]));
  return (Object.keys(answer).length ? answer : create(method.output)) as MessageShape<O>;
}

function isTooLarge(item: unknown): boolean {
  const { result } = item as { result?: { case?: string; value?: { reason?: string } } };
  return result?.case === "error" && result.value?.reason === "ANSWER_TOO_LARGE";
}
