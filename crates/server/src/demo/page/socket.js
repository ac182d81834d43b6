// One socket to the node: hello, calls and their answers, and reconnecting where it stopped.

const PAUSES = [200, 500, 1000, 2000, 5000];

// A call that the node refused, or that got no answer.
export class CallFailed extends Error {
  constructor(error) {
    super(error.message);
    this.reason = error.reason || "CLOSED";
  }
}

export class Connection {
  // `on` has a function for each kind of frame, `state` for what becomes of the connection, and `wire` for every frame.
  // `positions` returns what the page has of each conversation, `noticeAudiences` are those of its bell.
  constructor(user, on, positions, noticeAudiences) {
    Object.assign(this, { user, on, positions, noticeAudiences, cursor: "", calls: new Map(), nextId: 1, tries: 0, over: false });
    this.open();
  }

  open() {
    this.on.state("connecting");
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const socket = new WebSocket(`${scheme}://${location.host}/ws`);
    this.socket = socket;
    socket.onopen = () => this.hello(this.cursor ? { cursor: this.cursor } : {});
    socket.onmessage = ({ data }) => this.take(data);
    socket.onclose = ({ code, reason }) => this.closed(code, reason);
  }

  // A cursor resumes exactly; after a reset the positions do.
  hello(start) {
    this.how = start.cursor ? "resumed" : start.positions ? "relisted" : "";
    this.send({ hello: { user: this.user, device: "demo", noticeAudiences: this.noticeAudiences, ...start } });
  }

  take(data) {
    const frame = JSON.parse(data);
    this.on.wire("in", data);
    if (frame.cursor) this.cursor = frame.cursor;
    if (frame.id !== undefined) this.answered(frame);
    else if (frame.reset) this.hello({ positions: this.positions() });
    else if (frame.live) {
      this.tries = 0;
      this.on.live(this.how);
    } else for (const name of Object.keys(frame)) if (this.on[name] && name !== "live") this.on[name](frame[name], frame);
  }

  answered({ id, answer, error }) {
    const call = this.calls.get(id);
    this.calls.delete(id);
    if (call) error ? call.reject(new CallFailed(error)) : call.resolve(answer);
  }

  // Makes a call; the node makes it for the user of this socket.
  call(name, body = {}) {
    return new Promise((resolve, reject) => {
      if (this.socket.readyState !== WebSocket.OPEN) {
        reject(new CallFailed({ message: "not connected" }));
        return;
      }
      const id = this.nextId++;
      this.calls.set(id, { resolve, reject });
      this.send({ id, call: name, body });
    });
  }

  send(frame) {
    const data = JSON.stringify(frame);
    this.on.wire("out", data);
    this.socket.send(data);
  }

  closed(code, reason) {
    for (const call of this.calls.values()) call.reject(new CallFailed({ message: "the connection ended" }));
    this.calls.clear();
    if (this.over) return;
    if (code === 1008) {
      this.on.state("refused", reason);
      return;
    }
    this.on.state("gone");
    const pause = PAUSES[Math.min(this.tries++, PAUSES.length - 1)];
    setTimeout(() => this.over || this.open(), pause);
  }

  // Ends the connection under it, as a tunnel does; it comes back by itself.
  cut() {
    this.socket.close();
  }

  end() {
    this.over = true;
    this.socket.close();
  }
}
