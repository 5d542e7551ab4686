// The frame of all pages: navigation, the state of the connection, sign-in and keys.
import {useEffect, useRef} from 'preact/hooks';

import {address, linkTo, open, page, PAGES, range, RANGELESS, RANGES, RANGE_WORDS, want, type Page} from './address';
import {signOut} from './api';
import {begin, leave, pause} from './feed';
import {duration} from './format';
import {helpOpen, Help, listenToKeys} from './keys';
import {Errors} from './page_errors';
import {Fleet} from './page_fleet';
import {Latency} from './page_latency';
import {Overview} from './page_overview';
import {Rails} from './page_rails';
import {Replay} from './page_replay';
import {Transfers} from './page_transfers';
import {SignIn} from './sign_in';
import {clockAhead, failedSince, paused, session, signedOut, standing, summary} from './store';
import {chooseTheme, theme, type Theme} from './theme';

const CLOCK_MS = 5000; // a clock that is further off is told of

const TITLES: Record<Page, string> = {overview: 'Overview', transfers: 'Transfers', fleet: 'Fleet', rails: 'Rails',
  latency: 'Latency', errors: 'Errors', replay: 'Replay'};
const CONTENTS: Record<Page, () => preact.JSX.Element> = {overview: Overview, transfers: Transfers, fleet: Fleet,
  rails: Rails, latency: Latency, errors: Errors, replay: Replay};

function leaveSession(): void {
  signOut().then(() => leave('You have signed out.'), () => {});
}

function Who() {
  const who = session.value;
  if (!who?.name) return null;
  return (
    <>
      <span id="who" class="quiet">{`${who.name} may ${who.right === 'act' ? 'read and act' : 'read'}`}</span>
      {who.via === 'session' ? <button id="sign-out" type="button" onClick={leaveSession}>Sign out</button> : null}
    </>
  );
}

function Tools() {
  return (
    <div class="tools">
      <label class="hidden" for="range">Range of time</label>
      <select id="range" value={range.value} disabled={RANGELESS[page.value] !== undefined} title={RANGELESS[page.value]} onChange={(event) => want({range: event.currentTarget.value})}>
        {Object.keys(RANGES).map((name) => <option key={name} value={name}>last {RANGE_WORDS[name]}</option>)}
      </select>
      <label class="hidden" for="theme">Colours</label>
      <select id="theme" value={theme.value} onChange={(event) => chooseTheme(event.currentTarget.value as Theme)}>
        <option value="auto">auto</option><option value="light">light</option><option value="dark">dark</option>
      </select>
      <button id="pause" type="button" aria-pressed={paused.value ? 'true' : 'false'} title="Stop following (key: space)"
        onClick={() => pause(!paused.value)}>{paused.value ? 'Follow' : 'Pause'}</button>
      <button type="button" title="Keys (key: ?)" aria-label="Keys" onClick={() => { helpOpen.value = true; }}>?</button>
    </div>
  );
}

function Status() {
  const {kind, text} = standing.value;
  // The text counts seconds: only another state is read aloud.
  const said = useRef({state: '', text: ''}), state = kind || text;
  if (said.current.state !== state) said.current = {state, text};
  return (
    <>
      <p id="status" class="status" data-kind={kind}>{text}</p>
      <span id="status-said" class="hidden" role="status" aria-live="polite">{said.current.text}</span>
    </>
  );
}

function Top() {
  return (
    <header class="top">
      <a class="brand" href={linkTo('overview')}><span class="rails" aria-hidden="true" />kvrail</a>
      <nav aria-label="Pages">
        {PAGES.map((name) => (
          <a key={name} href={linkTo(name)} aria-current={page.value === name ? 'page' : undefined}
            onClick={(event) => { if (!event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); open(name); } }}>
            {TITLES[name]}</a>))}
      </nav>
      <Status />
      <span class="spring" />
      <Who />
      {signedOut.value === null ? <Tools /> : null}
    </header>
  );
}

// Troubles of the scheduler itself, which concern every page.
function Banners() {
  const troubles = summary.value?.troubles ?? [];
  return (
    <>
      {failedSince.value > 0 && summary.value ? (
        <p class="banner bad">The scheduler does not answer. {page.value === 'replay' ? 'This page does not need it.' : 'What stands below is from before.'}{' '}
          <button type="button" onClick={() => void begin()}>Try now</button></p>) : null}
      {Math.abs(clockAhead.value) >= CLOCK_MS && page.value !== 'replay' ? (
        <p class="banner" id="clock">The clock of this browser is {duration(Math.abs(clockAhead.value) / 1000)} {clockAhead.value > 0 ? 'behind' : 'ahead of'} the scheduler's. All times here are of the scheduler's clock.</p>) : null}
      {troubles.map((text) => <p key={text} class="banner bad">The scheduler says: {text}</p>)}
    </>
  );
}

function Foot() {
  const known = summary.value;
  return (
    <footer class="foot">
      <span id="version" class="quiet">{known ? `scheduler ${known.version}${known.insecure ? ' · insecure: agents prove no identity to it' : ''}` : ''}</span>
      <span class="spring" />
      <nav aria-label="For programs"><a href="/metrics">metrics</a> <a href="/api/v1/openapi.json">API</a> <a href="/LICENSES.txt">licences</a></nav>
    </footer>
  );
}

export function App() {
  const main = useRef<HTMLElement>(null), before = useRef(page.value);
  useEffect(listenToKeys, []);
  useEffect(() => {
    document.title = `${TITLES[page.value]} · kvrail`;
    if (before.current !== page.value) main.current?.focus({preventScroll: true});
    before.current = page.value;
    scrollTo(0, 0);
  }, [page.value]);
  const Content = CONTENTS[address.value.page];
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); main.current?.focus(); }}>To the content</a>
      <Top />
      {signedOut.value !== null ? <SignIn /> : (
        <main id="main" class={`page page-${page.value}`} tabIndex={-1} ref={main} data-paused={paused.value ? 'yes' : undefined}>
          <h1 class="hidden">{TITLES[page.value]}</h1>
          <Banners />
          <Content />
        </main>)}
      <Foot />
      <Help />
    </>
  );
}
