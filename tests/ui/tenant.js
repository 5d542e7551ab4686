// Goal: the table has each transfer's tenant, and the choice of one leaves those of others out, also with a
// state. Another tenant's failure, opened from its group, is shown all the same.
(async () => {
  const choice = document.getElementById('tenant');
  const tenants = () => [...new Set([...document.querySelectorAll('#transfers tr.row')].map((row) => row.cells[2].textContent))].sort().join();
  const until = async (true_now) => {
    for (let tries = 0; tries < 300 && !true_now(); tries++) await new Promise((resolve) => setTimeout(resolve, 50));
    return true_now();
  };
  const choose = (name) => {
    choice.value = name;
    choice.dispatchEvent(new Event('change'));
  };

  if (!await until(() => tenants() === 'blue,red')) return 'without a choice: ' + tenants();
  if (choice.hidden) return 'there is no choice';
  choose('blue');
  if (!await until(() => tenants() === 'blue')) return 'of blue: ' + tenants();
  document.querySelector('[data-filter="done"]').click();
  if (!await until(() => tenants() === 'blue' && location.hash === '#state=done&tenant=blue')) return 'done of blue: ' + tenants() + location.hash;
  document.querySelector('#reasons a').click();
  if (!await until(() => document.querySelector('tr.detail') && choice.value === '')) return 'no failure: ' + choice.value;
  choose('');
  return await until(() => tenants() === 'blue,red') ? 'tenant: chosen, and left again' : 'after the choice: ' + tenants();
})()
