// CPU time of GetUser by the client over that of the bare stub, against a node, as `cargo xtask overhead`: `node
// overhead.mjs ADDRESS`. Prints the median of the ratios as one line of JSON.
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { UserService } from "../src/gen/kith/user/v1/user_pb.js";
import { connectKith } from "../src/node.js";

const CALLS = 250;
const WARM_UP = 10;
const ROUNDS = 61;
const [address = ""] = process.argv.slice(2);
const bare = createClient(UserService, createGrpcTransport({ baseUrl: `http://${address}` }));
const own = connectKith({ address, onWarning: () => {} }).service(UserService);
const { user } = await own.createUser({ user: { userName: `typescript-${process.pid}` } });
const request = { userId: user?.userId ?? 0n };

async function cpu(call: () => Promise<unknown>): Promise<number> {
  const before = process.cpuUsage();
  for (let left = CALLS; left > 0; left--) await call();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

// Each caller sets a deadline, which the client does by itself.
const byClient = () => own.getUser(request);
const byStub = () => bare.getUser(request, { timeoutMs: 5000 });
const ratios: number[] = [];
for (let round = 0; round < WARM_UP + ROUNDS; round++) {
  const ratio = (await cpu(byClient)) / (await cpu(byStub));
  if (round >= WARM_UP) ratios.push(ratio);
}
ratios.sort((one, other) => one - other);
console.log(JSON.stringify({ typescript: Number(ratios[Math.floor(ROUNDS / 2)]?.toFixed(3)) }));
process.exit(0);
