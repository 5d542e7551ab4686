// The form for a token, where the scheduler wants one.
import {useEffect, useRef} from 'preact/hooks';

import {signIn} from './api';
import {begin} from './feed';
import {signedOut} from './store';

export function SignIn() {
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const attempt = async (event: Event): Promise<void> => {
    event.preventDefault();
    const token = input.current!.value.trim();
    input.current!.value = '';
    try {
      await signIn(token);
      await begin();
    } catch (error) {
      signedOut.value = error instanceof Error ? error.message : String(error);
    }
  };
  return (
    <main id="main" tabIndex={-1}>
      <form id="sign-in" class="sign-in" onSubmit={(event) => void attempt(event)}>
        <h1>Sign in</h1>
        <p id="sign-in-why" role="alert">{signedOut.value}</p>
        <label for="token">Token</label>
        <input id="token" ref={input} type="password" autocomplete="off" spellcheck={false} required />
        <button type="submit">Sign in</button>
        <p class="quiet">A token is made by <code>kvrail token NAME read</code>, and its line belongs into the
          scheduler's <code>--token-file</code>. It is sent once; a cookie stands for it from then on.</p>
      </form>
    </main>
  );
}
