import { mount } from 'svelte';
import App from './App.svelte';
import './app.css';
import { model } from './model.svelte.ts';
import { theme } from './theme.svelte.ts';

theme.apply();
const target = document.getElementById('app');
if (target) mount(App, { target });
void model.start();
