// Sends messages to a cluster, and reads each on another node at once. The laboratory, which writes the task and judges what is
// printed, disturbs the cluster meanwhile.
import { text } from "node:stream/consumers";
import { MessageService } from "../src/gen/kith/message/v1/message_pb.js";
import { type Kith, KithError, connectKith } from "../src/node.js";

interface Task {
  addresses: string[];
  chats: { from: number; to: number }[];
  messages: number;
}

const say = (line: object): void => console.log(JSON.stringify(line));

/** Makes a call again until it has an answer. */
async function answered<Answer>(failed: object, call: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof KithError)) throw error;
      say({ ...failed, error: error.message });
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function run(chat: number, { from, to }: Task["chats"][number], messages: number, sender: Kith, reader: Kith): Promise<void> {
  const session = sender.session().as(from);
  for (let n = 0; n < messages; n++) {
    const clientMessageId = `m${chat}-${n}`;
    const send = { to: { case: "userId" as const, value: BigInt(to) }, clientMessageId, contentType: "text/plain" };
    const { seq, conversationId } = await answered({ chat, n }, () => session.service(MessageService).sendMessage(send));
    const later = reader.session(session.export()).as(from);
    const page = await answered({ chat, n }, () => later.service(MessageService).history({ conversationId, limit: 1 }));
    const [last] = page.messages;
    say({ chat, n, id: clientMessageId, seq: Number(seq), read: last?.seq === seq && last.clientMessageId === clientMessageId });
  }
}

const { addresses, chats, messages } = JSON.parse(await text(process.stdin)) as Task;
// The first address of a sender is that of one node, and its conversations are read on another one.
const senders = addresses.map((_, at) => connectKith({ address: [...addresses.slice(at), ...addresses.slice(0, at)] }));
const readers = addresses.map((_, at) => connectKith({ address: addresses[(at + 1) % addresses.length] as string }));
await Promise.all(chats.map((users, chat) => run(chat, users, messages, senders[chat % senders.length] as Kith, readers[chat % readers.length] as Kith)));
process.exit(0);
