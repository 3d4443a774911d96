<<<<<<<< HEAD:web/dist/assets/every-BSzKLsy1.js
import{bt as e}from"./_plugin-vue_export-helper-19LtXo-Z.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
========
import{bt as e}from"./_plugin-vue_export-helper-yJAiYjVu.js";function t(t,n,r){let i=!1,a=setInterval(async()=>{if(!(i||document.hidden||!r())){i=!0;try{await n()}finally{i=!1}}},t*1e3);e(()=>clearInterval(a))}export{t};
>>>>>>>> started:web/dist/assets/every-7N0iARu6.js
