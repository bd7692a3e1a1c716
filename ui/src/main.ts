import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { loadTexts } from './fluent.ts';
import { model } from './model.svelte.ts';
import { theme } from './theme.svelte.ts';

theme.apply();
const target = document.getElementById('app');
// The session begins at once; what it brings is shown when the texts are there.
void loadTexts().then(() => target && mount(App, { target }));
void model.start();
