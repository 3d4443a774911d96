<<<<<<<< HEAD:web/dist/assets/every-C3TyLxRI.js
import{bt as e}from"./_plugin-vue_export-helper-25Zox6zP.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-Cmt5sKtX.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> events:web/dist/assets/every-Dmf8lgX9.js
