import 'uplot/dist/uPlot.min.css';
import './style.css';
import './detail.css';
import './replay.css';

import {render} from 'preact';

import {App} from './app';
import {follow} from './feed';

follow();
render(<App />, document.getElementById('page')!);
