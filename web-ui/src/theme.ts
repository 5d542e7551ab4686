// Dark or light: as the system has it, or as the person chose.
import {signal} from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const KEY = 'kvrail.theme';

function kept(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === 'light' || value === 'dark' ? value : 'auto';
  } catch {
    return 'auto'; // storage may be forbidden
  }
}

export const theme = signal<Theme>(kept());
export const drawn = signal(0); // grows when the colours change: canvases are drawn again

function show(): void {
  document.documentElement.style.colorScheme = theme.value === 'auto' ? 'light dark' : theme.value;
  drawn.value++;
}

export function chooseTheme(next: Theme): void {
  theme.value = next;
  try {
    localStorage.setItem(KEY, next);
  } catch { /* it lasts until the page is left */ }
  show();
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawn.value++);
show();

// The value of a token as a colour that a canvas takes.
export function colour(token: string): string {
  const probe = document.createElement('i');
  probe.style.color = `var(--${token})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
