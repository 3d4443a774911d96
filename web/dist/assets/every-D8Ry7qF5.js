<<<<<<<< HEAD:web/dist/assets/every-CozQ1_Dk.js
import{bt as e}from"./_plugin-vue_export-helper-C8hIF5QD.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-BIzvwZwC.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> c148dbb39 (Update the built console: the description of alerts about an overdue day):web/dist/assets/every-D8Ry7qF5.js
