// SPDX-License-Identifier: Apache-2.0
// How the page asks the server. The token comes with the address and is kept for this tab only.

const KEY = "detour-token";

export function takeToken() {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given) {
    sessionStorage.setItem(KEY, given);
    address.searchParams.delete("token");
    history.replaceState(null, "", address);  // not to be seen over a shoulder, nor bookmarked
  }
  return sessionStorage.getItem(KEY);
}

async function answered(response) {
  const answer = await response.json().catch(() => ({ error: `${response.status} ${response.statusText}` }));
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

export async function get(what, query = {}) {
  return answered(await fetch(`/api/${what}?${new URLSearchParams(query)}`));
}

export async function change(operation, args) {
  const headers = { "Content-Type": "application/json", "X-Detour-Token": sessionStorage.getItem(KEY) ?? "" };
  const body = JSON.stringify({ operation, arguments: args });
  return answered(await fetch("/api/do", { method: "POST", headers, body }));
}

// Calls `heard` with {history: [...]} and then with each sample; connects again for as long as the page is open.
export function listen(heard, gone) {
  const connection = new WebSocket(`ws://${location.host}/api/live`);
  connection.onmessage = (message) => heard(JSON.parse(message.data));
  connection.onclose = () => {
    gone();
    setTimeout(() => listen(heard, gone), 1000);
  };
}
