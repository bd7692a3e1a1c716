import { vitePreprocess } from '@sveltejs/vite-plugin-svelte';

/** @type {import('@sveltejs/vite-plugin-svelte').SvelteConfig} */
export default {
  preprocess: vitePreprocess(),
  compilerOptions: {
    runes: true,
    // Templates are built node by node: the page's policy requires Trusted Types, so innerHTML is never called.
    fragments: 'tree',
  },
};
