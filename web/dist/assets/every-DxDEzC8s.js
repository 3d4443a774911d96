<<<<<<<< HEAD:web/dist/assets/every-CdKM7j_8.js
import{bt as e}from"./_plugin-vue_export-helper-DJHGjonJ.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-Cbf2vDm8.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> 832b5177 (Update the built console with the page Conversations):web/dist/assets/every-DxDEzC8s.js
