// Goal: a person signs in with a token and sees the data, and signs out and sees none. A wrong token says so,
// and no script can read the cookie.
(async () => {
  const at = (id) => document.getElementById(id);
  const until = async (true_now) => {
    for (let tries = 0; tries < 300 && !true_now(); tries++) await new Promise((resolve) => setTimeout(resolve, 50));
    return true_now();
  };
  const enter = (text) => {
    at('token').value = text;
    at('sign-in').requestSubmit();
  };

  if (!await until(() => !at('sign-in').hidden)) return 'no form: ' + at('status').textContent;
  if (!at('data').hidden || at('rate').textContent !== '–') return 'data before the sign-in';
  if (at('sign-in-why').textContent !== '') return 'it begins with: ' + at('sign-in-why').textContent;
  enter('kvrail_0');
  if (!await until(() => at('sign-in-why').textContent.includes('not known'))) return 'a wrong token: ' + at('sign-in-why').textContent;
  enter('TOKEN');
  if (!await until(() => at('sign-in').hidden && !at('data').hidden && at('rate').textContent !== '–')) return 'no data: ' + at('sign-in-why').textContent;
  if (at('token').value !== '' || document.cookie !== '') return 'the page keeps: ' + at('token').value + document.cookie;
  if (at('who').textContent !== 'eve may read') return 'it says: ' + at('who').textContent;
  const order = await fetch('/api/v1/requests/r/abandon', {method: 'POST', headers: {'X-Kvrail-Request': '1'}});
  if (order.status !== 403) return 'an order of a reader: ' + order.status;
  at('sign-out').click();
  if (!await until(() => !at('sign-in').hidden && at('data').hidden)) return 'still there after the sign-out';
  const after = await fetch('/api/v1/summary');
  return after.status === 401 ? 'sign_in: ' + at('sign-in-why').textContent : 'after the sign-out: ' + after.status;
})()
