// Pages back through the transfers while new ones come. Compares the list with the scheduler's: counts
// transfers missing between the newest and the oldest row, and rows that are there twice.
(async () => {
  const rest = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  const rows = () => [...document.querySelectorAll('#transfers tr.row')].map((row) => row.dataset.key);
  const more = document.getElementById('more');
  const until = async (true_now) => {
    for (let tries = 0; tries < 200; tries++) {
      if (true_now()) return true;
      await rest(50);
    }
    return false;
  };

  const compare = async () => {
    const shown = rows(), set = new Set(shown), all = [];
    for (let next = ''; next !== null;) {
      const answer = await fetch('/api/v1/transfers?limit=500' + (next ? '&after=' + next : ''));
      const page = await answer.json();
      all.push(...page.transfers);
      next = page.next;
    }
    const place = new Map(all.map((transfer, i) => [transfer.id, i]));
    const places = shown.map((id) => place.get(id));
    const first = Math.min(...places), last = Math.max(...places);
    const missing = all.slice(first, last + 1).filter((transfer) => !set.has(transfer.id)).length;
    const disordered = places.filter((at, i) => i > 0 && at < places[i - 1]).length;
    return `${missing} missing, ${shown.length - set.size} twice, ${disordered} out of order`;
  };

  if (!await until(() => rows().length >= 100 && !more.hidden)) return 'no full page: ' + rows().length;
  more.click();
  more.click();
  if (!await until(() => rows().length >= 150)) return 'nothing older came: ' + rows().length;
  await rest(4000);
  const between = await compare();
  for (let tries = 0; tries < 40 && !more.hidden; tries++) {
    const before = rows().length;
    more.click();
    await until(() => more.hidden || rows().length > before);
  }
  if (!more.hidden) return 'there is no end: ' + rows().length;
  return `older: ${between}; at the end: ${await compare()}`;
})()
