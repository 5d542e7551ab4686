// A question that is asked again and again while its page is open, and what is known of its answer.
import {effect} from '@preact/signals';
import {useEffect, useState} from 'preact/hooks';

import {ask, type Parameters} from './api';
import {clockAhead, failed, paused, schedulerNow, signedOut} from './store';

const SOON_MS = 2000; // after a failure

// `at`: when the data came, in ms of the scheduler's clock. `error` beside data: these are kept from before.
export interface Query<T> { data: T | null; at: number; error: string; loading: boolean; again: () => void }

interface Known<T> { key: string; data: T | null; at: number; error: string }

// Calls `wake` when questions may be asked again: following after a pause, a tab that is seen, a sign-in, or a
// clock that was found to be wrong. Returns what ends that.
export function whenAwake(wake: () => void): () => void {
  let first = true;
  const stop = effect(() => {
    const may = !paused.value && signedOut.value === null && Number.isFinite(clockAhead.value);
    if (may && !first) setTimeout(wake, 0);
    first = false;
  });
  document.addEventListener('visibilitychange', wake);
  return () => {
    stop();
    document.removeEventListener('visibilitychange', wake);
  };
}

/* `path` null: nothing is asked. The parameters may depend on the time; they are made for each question,
 * and `key` says when an older answer is one to another question. A pause holds what is there: a question that
 * has no answer yet is asked all the same. */
export function useQuery<T>(path: string | null, parameters: () => Parameters, every: number, key = ''): Query<T> {
  const whole = path === null ? '' : `${path} ${key}`;
  const [known, setKnown] = useState<Known<T>>({key: '', data: null, at: 0, error: ''});
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    let over = false, timer = 0, asking = false, answered = known.key === whole && known.data !== null && round === 0;
    const once = async (): Promise<void> => {
      if (over || asking) return;
      clearTimeout(timer);
      asking = true;
      let wait = every;
      if ((!paused.value || !answered) && signedOut.value === null && !document.hidden) {
        try {
          const data = await ask<T>(path, parameters());
          answered = true;
          if (!over) setKnown({key: whole, data, at: schedulerNow(), error: ''});
        } catch (error) {
          failed(error);
          wait = Math.min(every, SOON_MS);
          const text = error instanceof Error ? error.message : String(error);
          if (!over) setKnown((before) => ({...(before.key === whole ? before : {data: null, at: 0}), key: whole, error: text}));
        }
      }
      asking = false;
      if (!over) timer = setTimeout(() => void once(), wait) as unknown as number;
    };
    void once();
    const sleep = whenAwake(() => void once());
    return () => {
      over = true;
      clearTimeout(timer);
      sleep();
    };
  }, [whole, every, round]);
  const current = known.key === whole;
  return {data: current ? known.data : null, at: current ? known.at : 0, error: current ? known.error : '',
    loading: path !== null && !current, again: () => setRound((before) => before + 1)};
}
