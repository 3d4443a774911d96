<<<<<<<< HEAD:web/dist/assets/newest-Jruy3NZU.js
import{bt as e}from"./_plugin-vue_export-helper-BnH2EnOe.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-CSf7MqJA.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
>>>>>>>> eead2e374 (Use plain words for rows and messages that would expire before they are sent):web/dist/assets/newest-vXomxQcV.js
