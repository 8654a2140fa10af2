"""The style sheet of all pages: light and dark, readable on narrow screens."""

STYLE = """
:root { color-scheme: light dark; --ink: #1d2129; --soft: #5b6472; --line: #d9dde4; --paper: #ffffff; --tint: #f4f6f9; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8ec; --soft: #a0a8b5; --line: #3a404b; --paper: #191c21; --tint: #22262d; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .4rem 0; max-width: 46rem; }
.soft, figcaption, footer { color: var(--soft); }
.answer { background: var(--tint); border-left: 4px solid #0072B2; border-radius: 0 6px 6px 0; }
.answer { margin: 1rem 0; padding: .7rem 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; min-width: 30rem; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { font-weight: 600; background: var(--tint); }
th.word, td.word { text-align: left; }
figure { margin: 0 0 1.2rem; }
figure svg { display: block; width: 100%; max-width: 46rem; height: auto; }
figcaption { font-size: .92rem; max-width: 46rem; }
details { border: 1px solid var(--line); border-radius: 6px; padding: .4rem .9rem; margin: .5rem 0; }
summary { cursor: pointer; }
pre { overflow-x: auto; font-size: .85rem; line-height: 1.4; }
footer { margin-top: 2.5rem; font-size: .88rem; }
"""
