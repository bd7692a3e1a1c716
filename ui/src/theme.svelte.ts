// Light, dark, or as the system has it. Kept per browser; it says nothing about a person.
export type Theme = 'system' | 'light' | 'dark';

const KEY = 'mezza.theme';
const ALL: Theme[] = ['system', 'light', 'dark'];

class ThemeChoice {
  now = $state<Theme>(ALL.find((theme) => theme === localStorage.getItem(KEY)) ?? 'system');

  apply(): void {
    if (this.now === 'system') document.documentElement.removeAttribute('data-theme');
    else document.documentElement.setAttribute('data-theme', this.now);
  }

  next(): void {
    this.now = ALL[(ALL.indexOf(this.now) + 1) % ALL.length] ?? 'system';
    localStorage.setItem(KEY, this.now);
    this.apply();
  }
}

export const theme = new ThemeChoice();
