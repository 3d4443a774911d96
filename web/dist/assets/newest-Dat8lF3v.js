<<<<<<<< HEAD:web/dist/assets/newest-C006Eoga.js
import{bt as e}from"./_plugin-vue_export-helper-DJHGjonJ.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-Cbf2vDm8.js";function t(t){let n=0,r=!1,i=null,a=null;function o(e){let r=++n,a=t(()=>r===n,e).finally(()=>{i===a&&(i=null)});return i=a,a}async function s(){for(;i;)await i;a=null,r||await o(!0)}return e(()=>{r=!0,n++}),{run:()=>o(!1),refresh:()=>i?a??=s():o(!0)}}export{t};
>>>>>>>> 832b5177 (Update the built console with the page Conversations):web/dist/assets/newest-Dat8lF3v.js
