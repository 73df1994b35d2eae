"""The page at `/sign`: whoever was sent a one-time link reads the document here, and signs or declines it.

The code stands behind the `#` of the address: browsers do not send that part, so no log of a server or a proxy has it.
Opening the page answers nothing; programs that look at links in messages use none up.
"""

from typing import Final

from dragoman.doors.rest.page import Document

SIGNING_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE: Final = b"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="robots" content="noindex">
<title>Sign a document</title>
<link rel="stylesheet" href="/sign/page.css">
</head>
<body>
<main>
<h1 id="title">Sign a document</h1>
<p id="state" role="status">Reading the link.</p>
<section id="request" hidden>
<p id="notice"></p>
<dl><dt>Asked by</dt><dd id="organisation"></dd><dt>Message</dt><dd id="message"></dd>
<dt>SHA-256 of the document</dt><dd><code id="sha256"></code></dd></dl>
<p><a id="document" download="document.pdf">Read the document</a></p>
<p><label><input type="checkbox" id="agree"> I have read this document, I am the person named above, and I sign it.
</label></p>
<p><button id="sign" disabled>Sign</button></p>
<p><label>Reason <input id="reason" maxlength="1000"></label> <button id="decline" disabled>Decline</button></p>
</section>
<noscript>This page needs JavaScript; without it, /openapi.json says how a link is answered.</noscript>
</main>
<script src="/sign/page.js"></script>
</body>
</html>
"""

_SCRIPT: Final = b"""\
"use strict";
const code = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
const part = (id) => document.getElementById(id);
const say = (text) => { part("state").textContent = text; };
async function ask(path, body) {
  const headers = { authorization: "Bearer " + code };
  const options = { headers, cache: "no-store", credentials: "omit" };
  if (body) {
    options.method = "POST";
    options.body = JSON.stringify(body);
    headers["content-type"] = "application/json";
  }
  const answer = await fetch("/api/links/" + path, options);
  const told = await answer.json();
  if (answer.ok) return told.data;
  throw new Error(answer.status === 401 ? "This link cannot be used, or not any more." : told.detail || told.title);
}
let read = "";
function update() {
  part("sign").disabled = !(read && part("agree").checked);
  part("decline").disabled = !part("reason").value.trim();
}
async function answer(path, body, done) {
  part("sign").disabled = part("decline").disabled = true;
  try {
    await ask(path, body);
    part("request").hidden = true;
    say(done);
  } catch (error) { say(error.message); update(); }
}
async function begin() {
  const request = await ask("request");
  for (const name of ["title", "notice", "organisation", "message"]) part(name).textContent = request[name] || "";
  const file = await ask("document");
  const bytes = Uint8Array.from(atob(file.content), (one) => one.charCodeAt(0));
  const hash = await crypto.subtle.digest("SHA-256", bytes);
  const found = Array.from(new Uint8Array(hash), (one) => one.toString(16).padStart(2, "0")).join("");
  if (found !== file.sha256) throw new Error("The document is not the one that its hash says.");
  part("document").href = URL.createObjectURL(new Blob([bytes], { type: "application/pdf" }));
  part("sha256").textContent = read = found;
  part("request").hidden = false;
  say(request.your_turn ? "Open until " + new Date(request.expires_at).toLocaleString() : "Others sign first.");
}
part("agree").addEventListener("change", update);
part("reason").addEventListener("input", update);
const sign = () => answer("sign", { document_sha256: read, agree: true }, "You have signed.");
const decline = () => answer("decline", { reason: part("reason").value }, "You have declined.");
part("sign").addEventListener("click", sign);
part("decline").addEventListener("click", decline);
begin().catch((error) => say(error.message));
"""

_STYLE: Final = b"""\
body { margin: 0; background: #fafafa; color: #1b2a3a; font-family: system-ui, sans-serif; line-height: 1.5; }
main { max-width: 44em; margin: 2em auto; padding: 1em 2em; background: #fff; border: 1px solid #e4e7eb; }
code { overflow-wrap: anywhere; }
dt { font-weight: 600; }
dd { margin: 0 0 .6em; }
"""

SIGNING_PAGE: Final = {
    "/sign": Document(_PAGE, "text/html; charset=utf-8"),
    "/sign/page.js": Document(_SCRIPT, "text/javascript; charset=utf-8"),
    "/sign/page.css": Document(_STYLE, "text/css; charset=utf-8"),
}
