<<<<<<<< HEAD:web/dist/assets/newest-BKCXjxSk.js
import{bt as e}from"./_plugin-vue_export-helper-L-e5E_q4.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-DD2zUCMD.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
>>>>>>>> c5748e914 (Add a signature to rules about received messages):web/dist/assets/newest-D0qofCba.js
