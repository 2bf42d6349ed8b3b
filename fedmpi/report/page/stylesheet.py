"""The page's style sheet: one column on a phone, two or three on a screen, plain on paper."""

from __future__ import annotations

CSS = """
:root { --paper:#fff; --card:#fff; --ink:#1d2126; --soft:#5b626c; --line:#dfe2e7; --tint:#f5f6f8; --link:#0b5fa5;
  --warn:#fff6e0; --warn-line:#d9a300; color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  :root { --paper:#14171b; --card:#1a1e23; --ink:#e6e8eb; --soft:#a2a9b3; --line:#333941; --tint:#1f242a;
    --link:#7db8ee; --warn:#2d2614; --warn-line:#b98c11 }
  figure img, .chip { filter: invert(0.91) hue-rotate(180deg) } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100% }
body { margin:0; background:var(--paper); color:var(--ink); overflow-wrap:break-word;
  font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif }
main, header, footer { max-width:1280px; margin:0 auto; padding:0 clamp(14px,3vw,36px) }
header { padding-top:clamp(20px,4vw,44px) }
h1 { font-size:clamp(1.5rem,4vw,2.1rem); line-height:1.2; margin:0 0 .5rem; letter-spacing:-.01em }
h2 { font-size:1.25rem; margin:2.6rem 0 .6rem; padding-top:.7rem; border-top:1px solid var(--line) }
h3 { font-size:1rem; margin:1.4rem 0 .4rem }
p, ul, dl { max-width:74ch; margin:.5rem 0 }
.lead { font-size:1.05rem }
.soft, figcaption, .caption, footer { color:var(--soft) }
ul { padding-left:1.2rem } li { margin:.2rem 0 }
a { color:var(--link) } a:focus-visible, .scroll:focus-visible, summary:focus-visible { outline:2px solid var(--link) }
.warn { background:var(--warn); border-left:4px solid var(--warn-line); border-radius:4px; padding:.6rem .9rem;
  margin:1rem 0 }
.warn ul { margin:.2rem 0 }
.scroll { overflow-x:auto; margin:1rem 0 0; border:1px solid var(--line); border-radius:6px; background:var(--card) }
table { border-collapse:collapse; width:100%; font-size:.9rem; font-variant-numeric:tabular-nums }
.caption { font-size:.85rem; margin:.4rem 0 1.4rem; max-width:none }
th, td { padding:.42rem .8rem; text-align:right; white-space:nowrap; border-bottom:1px solid var(--line) }
td { border-left:0 }
thead th { color:var(--soft); font-weight:600; background:var(--tint) }
th:first-child { text-align:left; position:sticky; left:0; background:var(--card); font-weight:600 }
thead th:first-child { background:var(--tint) }
.beside th, .beside td { padding-left:.45rem; padding-right:.45rem }
.words td { white-space:normal; min-width:9rem }
.chip { display:inline-block; width:.75em; height:.75em; border-radius:2px; margin-right:.5em }
.figures { display:grid; gap:18px; grid-template-columns:repeat(auto-fit,minmax(min(100%,350px),1fr));
  align-items:start; margin:1rem 0 }
.figures > .figures { grid-template-columns:1fr; margin:0 }
.beside { display:flex; flex-wrap:wrap; gap:0 28px; align-items:flex-start }
.beside > .figures { flex:1 1 min(100%,390px); max-width:460px; grid-template-columns:1fr }
.beside > .figures + div { flex:1.6 1 min(100%,390px); min-width:0 }
@media (max-width:880px) { .beside > .figures { max-width:none } }
tbody tr:last-child > * { border-bottom:0 }
figure { margin:0; padding:14px 14px 10px; border:1px solid var(--line); border-radius:6px; background:var(--card) }
figure h3 { margin:0 0 .5rem }
figure img { display:block; width:100%; height:auto }
figcaption { font-size:.85rem; margin-top:.45rem }
pre { background:var(--tint); border:1px solid var(--line); border-radius:6px; padding:.8rem; margin:.6rem 0;
  overflow:auto; max-height:24rem;
  font:.82rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace }
code { font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace; font-size:.92em }
dl { display:grid; grid-template-columns:minmax(7rem,max-content) 1fr; gap:.25rem 1rem }
dt { font-weight:600 } dd { margin:0; min-width:0 }
details { margin:.8rem 0 } summary { cursor:pointer; font-weight:600 }
footer { font-size:.85rem; padding-top:1.6rem; padding-bottom:3rem }
@media (max-width:520px) {
  dl { grid-template-columns:1fr; gap:0 } dd { margin-bottom:.55rem } th, td { padding:.4rem .6rem } }
@media print {
  :root { --paper:#fff; --card:#fff; --ink:#000; --soft:#444; --line:#bbb; --tint:#f3f3f3; --link:#000 }
  @page { margin:15mm }
  body { font-size:10pt } main, header, footer { max-width:none; padding:0 }
  figure img, .chip { filter:none; print-color-adjust:exact }
  figure, tr, .warn, .beside { break-inside:avoid } h2, h3 { break-after:avoid }
  .figures { grid-template-columns:repeat(2,1fr); gap:10px }
  .scroll { overflow:visible; border:0 } table { font-size:7.5pt } th, td { padding:.25rem .3rem }
  thead th, td { white-space:normal } th:first-child { position:static }
  pre { white-space:pre-wrap; font-size:7.5pt; max-height:none } .files { display:none }
  details::details-content { content-visibility:visible; height:auto }
}
"""
