// Shown instead of the views until the user signs in.

import { html, useState } from '../vendor/preact.js';
import { Notice } from '../parts/components.js';
import { session } from '../session.js';

export function SignIn() {
  const [text, put] = useState('');
  const [busy, wait] = useState(false);
  const submit = (event) => {
    event.preventDefault();
    wait(true);
    session.signIn(text).finally(() => {
      wait(false);
      put('');
    });
  };
  return html`<main id="main"><h1 tabindex="-1">Sign in</h1>
    <p>This server requires credentials. On the machine of the server, run <code>orlop page</code>. Open the link that the command prints, or paste it here. You
      can also paste a token, for example from <code>kubectl create token</code>.</p>
    ${session.problem && html`<${Notice} tone="bad"><p>${session.problem}</p><//>`}
    <form class="buttons" onSubmit=${submit}>
      <label>Link or token <input type="password" name="credential" autocomplete="off" value=${text} onInput=${(event) => put(event.target.value)} /></label>
      <button type="submit" disabled=${busy || !text.trim()}>Sign in</button>
    </form></main>`;
}
