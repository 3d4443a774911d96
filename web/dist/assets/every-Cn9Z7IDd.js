<<<<<<<< HEAD:web/dist/assets/every-Cn9Z7IDd.js
import{_t as e}from"./_plugin-vue_export-helper-D8HXXFW7.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{yt as e}from"./_plugin-vue_export-helper-5R5YeKSI.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> w-consolea:web/dist/assets/every-Bcrfg8cR.js
