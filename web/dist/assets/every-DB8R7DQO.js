<<<<<<<< HEAD:web/dist/assets/every-DaXXbq3O.js
import{bt as e}from"./_plugin-vue_export-helper-L-e5E_q4.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-DD2zUCMD.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> c5748e914 (Add a signature to rules about received messages):web/dist/assets/every-DB8R7DQO.js
