<<<<<<<< HEAD:web/dist/assets/every-CmRyqheg.js
import{bt as e}from"./_plugin-vue_export-helper-B3XbXlRC.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-A3QopiqL.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> main:web/dist/assets/every-BI4Ywmf_.js
