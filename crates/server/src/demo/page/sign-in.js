// Two ways to sign in. A node with `ws.trusted` believes a name; every other one takes tokens of its issuer.

import { say } from "./words.js";

const $ = (id) => document.getElementById(id);

function claimsOf(token) {
  try {
    return JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
  } catch {
    return {};
  }
}

// Asks the person for a token, of this user if there is one. Null: the person signs out.
export function ask(user = "") {
  const form = $("token");
  form.hidden = false;
  $("token-none").hidden = !user;
  $("token-about").textContent = say("token", user || "USER");
  return new Promise((resolve) => {
    const done = (token) => {
      form.hidden = true;
      $("token-text").value = $("token-problem").textContent = "";
      resolve(token);
    };
    $("token-none").onclick = () => done(null);
    form.onsubmit = (event) => {
      event.preventDefault();
      const token = $("token-text").value.trim();
      const { sub = "" } = claimsOf(token);
      if (sub && (!user || sub === user)) done({ token, user: sub });
      else $("token-problem").textContent = say("notToken", user);
    };
  });
}

// The callback of the chat session. It is asked before a token ends, and after a refusal. In a product it is one line:
// token: async () => (await fetch("/token")).text()
export class Tokens {
  constructor(user, token) {
    this.user = user;
    this.take(token);
  }

  // In its first half a token is given again, after a loss of the connection.
  take(token) {
    const { iat = 0, exp = 0 } = claimsOf(token);
    Object.assign(this, { token, until: performance.now() + ((exp - iat) / 2) * 1000 });
  }

  refused() {
    this.token = "";
  }

  async give() {
    if (this.token && performance.now() < this.until) return this.token;
    const given = await ask(this.user);
    this.take(given?.token ?? "");
    return given && this.token;
  }
}
