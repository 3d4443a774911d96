<<<<<<<< HEAD:web/dist/assets/every-9fdHENco.js
import{bt as e}from"./_plugin-vue_export-helper-Brc5CRKa.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-D4-_lvJ3.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> 0ae1eaef (Update the built console):web/dist/assets/every-BP-wH4_V.js
