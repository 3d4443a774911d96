<<<<<<<< HEAD:web/dist/assets/every-DB3OK4XK.js
import{bt as e}from"./_plugin-vue_export-helper-BP801oP-.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-BIlsNOxj.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> 687ae88b9 (Update the built console: the reasons why a sender gets no tasks):web/dist/assets/every-D12vkR-J.js
