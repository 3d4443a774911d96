<<<<<<<< HEAD:web/dist/assets/newest-DwPk_-1v.js
import{bt as e}from"./_plugin-vue_export-helper-C8hIF5QD.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-BIzvwZwC.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
>>>>>>>> c148dbb39 (Update the built console: the description of alerts about an overdue day):web/dist/assets/newest-DS-3NyT0.js
