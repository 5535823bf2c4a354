// Shown instead of the views until the user signs in.

import { html, useEffect, useRef, useState } from '../vendor/preact.js';
import { Notice } from '../parts/components.js';
import { session } from '../session.js';

/** The text in the form. It outlives the form: if the page removes the form and draws it again, the form shows the same text. */
let typed = '';

export function SignIn() {
  const [text, put] = useState(typed);
  const [busy, wait] = useState(false);
  const field = useRef(null);
  useEffect(() => {
    if (typed) field.current.focus();
    return () => {
      // A page that is signed in does not hold the credential.
      if (!session.required) typed = '';
    };
  }, []);
  const type = (value) => {
    typed = value;
    put(value);
  };
  const submit = (event) => {
    event.preventDefault();
    wait(true);
    session.signIn(text).finally(() => {
      wait(false);
      // Keep the rejected text, so that the user can correct it; selected, so that another paste replaces it. Do not touch newer text.
      if (session.required && typed === text) field.current?.select();
    });
  };
  return html`<main id="main"><h1 tabindex="-1">Sign in</h1>
    <p>This server requires credentials. On the machine of the server, run <code>orlop page</code>. Open the link that the command prints, or paste it here. You
      can also paste a token, for example from <code>kubectl create token</code>.</p>
    ${session.problem && html`<${Notice} tone="bad"><p>${session.problem}</p><//>`}
    <form class="buttons" onSubmit=${submit}>
      <label>Link or token <input ref=${field} type="password" name="credential" autocomplete="off" value=${text} onInput=${(event) => type(event.target.value)} /></label>
      <button type="submit" disabled=${busy || !text.trim()}>Sign in</button>
    </form></main>`;
}
