/// <reference types="vitest/config" />
import { fileURLToPath } from 'node:url';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { fluentKeys } from './build/fluent-keys.ts';

const root = fileURLToPath(new URL('.', import.meta.url));

export default defineConfig({
  root,
  plugins: [fluentKeys(root), svelte()],
  build: {
    outDir: '../crates/mezza/page',
    emptyOutDir: true,
    // A data: address would fall to the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The first versions with light-dark(), so that colours are shipped as written.
    target: ['chrome123', 'firefox121', 'safari17.5'],
    reportCompressedSize: false,
  },
  test: {
    include: ['tests/unit/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 300_000,
  },
});
