// Goal: the page reports a scheduler that accepts a request and never answers, and its return.
(async () => {
  const status = document.getElementById('status'), well = window.fetch;
  const answers = () => !/^(connecting|no answer)/.test(status.textContent);
  const until = async (true_now) => {
    for (let tries = 0; tries < 300 && !true_now(); tries++) await new Promise((resolve) => setTimeout(resolve, 50));
    return true_now();
  };

  if (!await until(answers)) return 'no page: ' + status.textContent;
  window.fetch = (path, {signal} = {}) =>
    new Promise((resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
  if (!await until(() => !answers())) return 'it still shows: ' + status.textContent;
  window.fetch = well;
  return await until(answers) ? 'hung: told of, and followed again' : 'it goes on showing: ' + status.textContent;
})()
