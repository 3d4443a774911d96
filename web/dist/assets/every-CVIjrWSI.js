<<<<<<<< HEAD:web/dist/assets/every-CSlXURjJ.js
import{bt as e}from"./_plugin-vue_export-helper-BnH2EnOe.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-CSf7MqJA.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> eead2e374 (Use plain words for rows and messages that would expire before they are sent):web/dist/assets/every-CVIjrWSI.js
