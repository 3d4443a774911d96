<<<<<<<< HEAD:web/dist/assets/newest-DdOkWE_V.js
import{bt as e}from"./_plugin-vue_export-helper-Brc5CRKa.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-D4-_lvJ3.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
>>>>>>>> 0ae1eaef (Update the built console):web/dist/assets/newest-c7G7wslO.js
