// Questions to the scheduler. A scheduler that hangs must not look healthy, so each has a limit of time.
const PATIENCE_MS = 5000;

export class Failure extends Error {
  status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

async function failureOf(answer: Response): Promise<Failure> {
  const body = await answer.json().catch(() => null);
  return new Failure(answer.status, body?.error?.message ?? `HTTP ${answer.status}`);
}

async function send(path: string, options: RequestInit = {}): Promise<unknown> {
  const answer = await fetch(path, {...options, cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!answer.ok) throw await failureOf(answer);
  return answer.json();
}

export type Parameters = Record<string, string | number | null | undefined>;

export function pathWith(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== null && value !== undefined && value !== '') query.set(name, String(value));
  }
  return query.size > 0 ? `${path}?${query}` : path;
}

export function ask<T>(path: string, parameters: Parameters = {}): Promise<T> {
  return send(pathWith(path, parameters), {headers: {Accept: 'application/json'}}) as Promise<T>;
}

// An action. The header shows the scheduler that no page of another site sends it.
export function order(path: string): Promise<unknown> {
  return send(path, {method: 'POST', headers: {'X-Kvrail-Request': '1'}});
}

// The token is sent once. The cookie that answers is not for scripts; the browser sends it by itself.
export async function signIn(token: string): Promise<void> {
  await send('/api/v1/session', {method: 'POST', headers: {Authorization: `Bearer ${token}`}});
}

export async function signOut(): Promise<void> {
  await send('/api/v1/session', {method: 'DELETE', headers: {'X-Kvrail-Request': '1'}});
}
