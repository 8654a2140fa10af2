"""The style sheet of all pages: light and dark, readable on narrow screens."""

STYLE = """
:root { color-scheme: light; --scheme: light; --ink: #1d2129; --soft: #5b6472; --line: #d9dde4; --paper: #ffffff;
  --tint: #f4f6f9; --accent: #0072B2; }
@media (prefers-color-scheme: dark) { :root:not([data-scheme=light]) { color-scheme: dark; --scheme: dark;
  --ink: #e6e8ec; --soft: #a0a8b5; --line: #3a404b; --paper: #191c21; --tint: #22262d; --accent: #56B4E9; } }
:root[data-scheme=dark] { color-scheme: dark; --scheme: dark; --ink: #e6e8ec; --soft: #a0a8b5; --line: #3a404b;
  --paper: #191c21; --tint: #22262d; --accent: #56B4E9; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
[hidden] { display: none !important; }
main { max-width: 72rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .5rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .4rem 0; max-width: 48rem; overflow-wrap: anywhere; }
.soft, figcaption, footer { color: var(--soft); }
.answer { background: var(--tint); border-left: 4px solid var(--accent); border-radius: 0 6px 6px 0; }
.answer { margin: 1rem 0; padding: .5rem 1rem; }
.answer p:first-child { font-weight: 600; }
.wide { overflow-x: auto; background:
  linear-gradient(to right, var(--paper) 30%, transparent) left / 2.5rem 100%,
  linear-gradient(to left, var(--paper) 30%, transparent) right / 2.5rem 100%,
  linear-gradient(to right, var(--line), transparent) left / .8rem 100%,
  linear-gradient(to left, var(--line), transparent) right / .8rem 100%;
  background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .94rem; }
th, td { padding: .35rem .55rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: 600; }
th.word, td.word { text-align: left; }
th button { all: unset; cursor: pointer; }
th button:focus-visible { outline: 2px solid var(--accent); }
th button::after { content: "↕"; color: var(--soft); font-size: .75em; padding-left: .3em; }
th[aria-sort=ascending] button::after { content: "↑"; color: var(--accent); }
th[aria-sort=descending] button::after { content: "↓"; color: var(--accent); }
figure { margin: 0 0 1.2rem; }
figure svg.still { display: block; width: 100%; min-width: 40rem; max-width: 60rem; height: auto; }
figcaption { font-size: .92rem; max-width: 48rem; }
.plot { min-height: 420px; }
.plot .modebar-container { top: auto !important; bottom: 30px; } /* opposite to the legend */
.tools { display: flex; flex-wrap: wrap; gap: .4rem 1rem; align-items: center; margin: .3rem 0; font-size: .92rem; }
.tools label { display: inline-flex; gap: .35rem; align-items: center; max-width: 100%; white-space: nowrap; }
.filter label { white-space: normal; }
.tools select, .tools input { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line);
  border-radius: 4px; padding: .2rem .3rem; max-width: 22rem; min-width: 0; width: 100%; }
.tools input[type=checkbox] { width: auto; }
button.small { font: inherit; font-size: .85rem; color: inherit; background: var(--tint); border: 1px solid var(--line);
  border-radius: 4px; padding: .15rem .6rem; cursor: pointer; }
.chip { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; flex: none; }
.filter { position: sticky; top: 0; z-index: 5; background: var(--paper); border-bottom: 1px solid var(--line); }
.filter details { border: 0; padding: .3rem 0; margin: 0; }
.filter .tools { max-height: 30vh; overflow-y: auto; }
details { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; margin: .5rem 0; }
summary { cursor: pointer; overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.4; }
pre.wrap { white-space: pre-wrap; overflow-wrap: anywhere; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 27rem), 1fr)); gap: .8rem 1.5rem; }
.pictures div { display: grid; grid-template-columns: 6.5rem 1fr; gap: .2rem .6rem; align-items: center; }
.pictures b { grid-column: 1 / -1; font-size: .95rem; }
.pictures img { display: block; height: 2.4rem; max-width: 100%; object-fit: contain; object-position: left; }
.pictures span { font-size: .85rem; color: var(--soft); }
footer { margin-top: 2.5rem; font-size: .88rem; }
@media (max-width: 639px) { main { padding: 1.2rem .8rem 2rem; } h1 { font-size: 1.35rem; }
  .plot .modebar-container { top: 0 !important; bottom: auto; }
  th, td { padding: .3rem .5rem; font-size: .9rem; } .pictures div { grid-template-columns: 1fr; } }
"""
